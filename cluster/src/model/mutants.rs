//! Rules left out one by one.
