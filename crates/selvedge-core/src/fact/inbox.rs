//! Facts about submissions from SQL.

use super::declaration::declare;
use uuid::Uuid;

declare! {
    /// A submission from SQL was refused when a server took it in.
    pub struct InboxRefused {
        /// The number of its row in the inbox.
        number: i64,
        /// The id that the caller got, of the execution or the flow.
        id: Uuid,
        /// The stable code of the reason.
        code: String,
        detail: String,
        /// The JSON pointer to the refused field.
        pointer: Option<String>,
    }
    publishes "inbox.refused" { "number": number, "id": id, "code": code, "detail": detail, "pointer": pointer };
}
