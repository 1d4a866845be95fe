//! Page-by-page scans that several reconcilers share, one file per source of rows. A reconciler that is nothing but
//! such a scan is a constant of the scan's type.

pub mod due;
pub mod gates;
pub mod outbox;
