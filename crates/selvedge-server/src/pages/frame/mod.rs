//! What surrounds every page: its layout and headers, its assets, its live updates, and problems as pages.

pub mod assets;
pub mod layout;
pub mod live;
pub mod problem_page;
