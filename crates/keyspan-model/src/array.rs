//! Values in and out of Arrow arrays.
