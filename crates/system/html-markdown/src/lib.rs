//! Converts web pages to Markdown: detects the charset, drops menus and invisible parts, converts tables
//! and code, and escapes characters that could hide text.
//!
//! **Does not know** the network, files, or who reads the page. Pure.
//!
//! **Invariant:** work and memory are linear in the size of the page, whatever it contains.

pub mod charset;
mod code_language;
mod code_lines;
mod element_ends;
mod entities;
mod hidden;
mod html;
#[cfg(test)]
mod html_tests;
mod plain;
mod regions;
mod table_shape;
mod table_write;
mod tags;
mod tidy_lines;

pub use html::{HtmlPage, convert};
pub use plain::{part, visible};
