//! Web pages as Markdown: the charset of a body, HTML without menus and hidden parts,
//! tables and code as Markdown has them, and text in which nothing hides.
//!
//! **Does not know** the network, files, or who reads the page. Pure.
//!
//! **Invariant:** work and memory are in proportion to the page, whatever it holds.

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
