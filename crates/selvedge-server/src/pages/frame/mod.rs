//! The frame of every page: layout and headers, assets, live updates, and problems shown as pages.

pub mod assets;
pub mod layout;
pub mod live;
pub mod problem_page;
