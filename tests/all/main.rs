//! All integration tests of the program, in one binary.

mod prism;
