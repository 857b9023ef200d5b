//! A YAML value with a budget.
//!
//! Pure. Takes whatever a serde format offers, gives a [`Value`] that keeps doubled keys, big
//! integers and tagged values, or stops when the budget is spent.
//!
//! **Invariant:** aliases cannot make a value larger than the budget.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess as _,
    Visitor,
};

/// A value of the frontmatter.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Null,
    /// A string, a date, a boolean.
    Text(String),
    Number(String),
    List(Vec<Value>),
    /// In the order of the file, doubled keys included.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// The scalars of a list, nested lists included (`[[x]]` unquoted is a list in a list).
    pub fn scalars<'a>(&'a self, into: &mut Vec<&'a str>) {
        match self {
            Self::Text(text) | Self::Number(text) => into.push(text),
            Self::List(items) => items.iter().for_each(|it| it.scalars(into)),
            Self::Null | Self::Map(_) => {}
        }
    }
}

/// Reads one value against the budget that is left.
#[derive(Clone, Copy)]
pub struct Seed<'a> {
    pub values: &'a Cell<usize>,
    pub bytes: &'a Cell<usize>,
}

impl Seed<'_> {
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        let values = self.values.get().checked_sub(1);
        let bytes = self.bytes.get().checked_sub(bytes);
        let (Some(values), Some(bytes)) = (values, bytes) else {
            return Err(E::custom("too many values"));
        };
        self.values.set(values);
        self.bytes.set(bytes);
        Ok(())
    }

    fn number<E: Error>(self, number: impl ToString) -> Result<Value, E> {
        self.spend(0)?;
        Ok(Value::Number(number.to_string()))
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.spend(0)?;
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, it: bool) -> Result<Value, E> {
        self.spend(0)?;
        Ok(Value::Text(it.to_string()))
    }

    fn visit_i64<E: Error>(self, it: i64) -> Result<Value, E> {
        self.number(it)
    }

    fn visit_u64<E: Error>(self, it: u64) -> Result<Value, E> {
        self.number(it)
    }

    fn visit_i128<E: Error>(self, it: i128) -> Result<Value, E> {
        self.number(it)
    }

    fn visit_u128<E: Error>(self, it: u128) -> Result<Value, E> {
        self.number(it)
    }

    fn visit_f64<E: Error>(self, it: f64) -> Result<Value, E> {
        self.number(it)
    }

    fn visit_str<E: Error>(self, it: &str) -> Result<Value, E> {
        self.spend(it.len())?;
        Ok(Value::Text(it.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        self.spend(0)?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        self.spend(0)?;
        let mut entries = Vec::new();
        while let Some(key) = map.next_key_seed(self)? {
            let value = map.next_value_seed(self)?;
            let key = match key {
                Value::Text(key) | Value::Number(key) => key,
                Value::Null | Value::List(_) | Value::Map(_) => String::new(),
            };
            entries.push((key, value));
        }
        Ok(Value::Map(entries))
    }

    /// `!tag value`: the tag is dropped, the value kept.
    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Value, A::Error> {
        let (_tag, variant) = data.variant_seed(self)?;
        variant.newtype_variant_seed(self)
    }
}
