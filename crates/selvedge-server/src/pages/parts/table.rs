//! Tables.

use maud::{Markup, html};

/// Shows a table. It scrolls sideways where the page is narrow.
pub fn table_of(columns: Markup, rows: Markup) -> Markup {
    html! {
        div.table { table { thead { tr { (columns) } } tbody { (rows) } } }
    }
}

/// The heading of a column of buttons, for screen readers.
pub fn actions_column() -> Markup {
    html! { th { span.visually-hidden { "Actions" } } }
}
