//! What only GitHub has.
