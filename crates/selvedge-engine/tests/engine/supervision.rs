//! supervision
