//! What the user and the vault may decide, at two levels of trust.
//!
//! Takes files, the environment and overrides, gives [`Settings`] and the warnings of reading
//! them. Plain values from then on: nobody reads a settings file again.
//!
//! **Invariant:** the vault's own file travels with the vault and is not trusted: it can't name a
//! command, an endpoint, a secret or a path outside the vault.

pub mod dirs;
pub mod edit;
pub mod keys;
pub mod layout;
pub mod load;

pub use dirs::Dirs;
pub use keys::Settings;
pub use load::{Loaded, Source, load};
