//! A map whose clone is cheap and stays as it was.
//!
//! Pure. Cut into shards behind `Arc`s: a clone shares them, a change copies one.
//!
//! **Invariant:** a clone never sees a later change.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

const SHARDS: usize = 512;

/// A map to be shared with readers while it goes on changing.
#[derive(Clone, Debug)]
pub struct CowMap<K, V> {
    shards: Arc<Vec<Arc<Shard<K, V>>>>,
    length: usize,
}

type Shard<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

impl<K: Hash + Eq + Clone, V: Clone> CowMap<K, V> {
    pub fn new() -> Self {
        Self { shards: Arc::new(vec![Arc::default(); SHARDS]), length: 0 }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.shards[shard_of(key)].get(key)
    }

    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.shard(&key).insert(key, value);
        self.length += usize::from(old.is_none());
        old
    }

    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.get(key)?;
        let old = self.shard(key).remove(key);
        self.length -= usize::from(old.is_some());
        old
    }

    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.shards.iter().flat_map(|it| it.iter())
    }

    fn shard<Q: Hash + ?Sized>(&mut self, key: &Q) -> &mut Shard<K, V> {
        let shards = Arc::make_mut(&mut self.shards);
        Arc::make_mut(&mut shards[shard_of(key)])
    }
}

impl<K: Hash + Eq + Clone, V: Clone> FromIterator<(K, V)> for CowMap<K, V> {
    /// Of one key the last value counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        let each = pairs.size_hint().0 / SHARDS;
        let mut shards: Vec<Shard<K, V>> = Vec::with_capacity(SHARDS);
        shards.resize_with(SHARDS, || Shard::with_capacity_and_hasher(each, Default::default()));
        for (key, value) in pairs {
            shards[shard_of(&key)].insert(key, value);
        }
        let length = shards.iter().map(HashMap::len).sum();
        Self { shards: Arc::new(shards.into_iter().map(Arc::new).collect()), length }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Default for CowMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Hash + Eq + Clone, V: Clone + PartialEq> PartialEq for CowMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.length == other.length && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: Hash + Eq + Clone, V: Clone + Eq> Eq for CowMap<K, V> {}

fn shard_of<Q: Hash + ?Sized>(key: &Q) -> usize {
    let hash = BuildHasherDefault::<Quick>::default().hash_one(key);
    // The low bits choose the bucket inside the shard.
    usize::try_from(hash >> 55).unwrap_or(0) % SHARDS
}

/// A quick hash for keys that nobody chooses against us more than once: a vault's own paths and
/// our own numbers.
#[derive(Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.write_u64(u64::from_le_bytes(padded));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn finish(&self) -> u64 {
        let mixed = self.0 ^ (self.0 >> 32);
        mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map_and_a_clone_stays_as_it_was(
            steps in prop::collection::vec((0..40u64, prop::option::of(0..9u8)), 0..200),
        ) {
            let (mut map, mut model) = (CowMap::new(), HashMap::new());
            let mut kept = None;
            for (at, (key, value)) in steps.iter().enumerate() {
                match value {
                    Some(value) => prop_assert_eq!(map.insert(*key, *value), model.insert(*key, *value)),
                    None => prop_assert_eq!(map.remove(key), model.remove(key)),
                }
                prop_assert_eq!(map.len(), model.len());
                if at == steps.len() / 2 {
                    kept = Some((map.clone(), model.clone()));
                }
            }
            let at_once: CowMap<u64, u8> = model.clone().into_iter().collect();
            prop_assert!(at_once == map && at_once.len() == map.len());
            for (map, model) in kept.into_iter().chain([(map, model)]) {
                let all: HashMap<u64, u8> = map.iter().map(|(key, value)| (*key, *value)).collect();
                prop_assert_eq!(all, model);
            }
        }
    }
}
