//! Namespaces and their settings.

use crate::bulk_jobs::BulkJob;
use crate::paging::{Page, Paging};
use crate::schema::{duration, integer_within};
use crate::tags::ADMINISTRATION;
use crate::{Answer, Code, Operation};
use selvedge_core::Permission;
use selvedge_core::gate::WEIGHT_MAX;
use serde_json::json;

/// List namespaces, ordered by name
#[derive(Clone, Debug, Default, PartialEq, Operation)]
#[api(get = "/v1/admin/namespaces", tag = ADMINISTRATION, permission = Permission::Administer)]
#[api(answer = Page<Namespace>, answers(200 = "A page of the list."))]
pub struct ListNamespaces {
    pub page: Paging,
}

/// Get a namespace
#[derive(Clone, Debug, PartialEq, Operation)]
#[api(get = "/v1/admin/namespaces/{name}", tag = ADMINISTRATION, permission = Permission::Administer)]
#[api(answer = Namespace, answers(200 = "The namespace."))]
#[api(also(Code::NotFound, Code::InvalidField, Code::UnknownField))]
pub struct GetNamespace {
    pub name: String,
}

/// Create or configure a namespace
#[derive(Clone, Debug, Default, PartialEq, Operation)]
#[api(put = "/v1/admin/namespaces/{name}", tag = ADMINISTRATION, permission = Permission::Administer)]
#[api(answer = Namespace, answers(201 = "The new namespace.", 200 = "The changed namespace."))]
#[api(optional_body, example = json!({ "suspension_timeout_ms": 86_400_000 }), also(Code::WrongState))]
pub struct PutNamespace {
    pub name: String,
    /// The timeout of suspensions that give none.
    #[api(schema = duration())]
    pub suspension_timeout_ms: Option<i64>,
    /// The retention of executions that give none.
    #[api(schema = duration())]
    pub retention_ms: Option<i64>,
    /// The share of the namespace in claims from several. Default: 1.
    #[api(schema = integer_within(1, WEIGHT_MAX.into()))]
    pub weight: Option<u32>,
}

/// Delete a namespace with everything in it
///
/// Starts a bulk job, which is shown in the namespace of the caller, to administrators, and cannot be stopped. A repeated
/// request answers the same job, and continues one that an earlier version stopped.
#[derive(Clone, Debug, PartialEq, Operation)]
#[api(delete = "/v1/admin/namespaces/{name}", tag = ADMINISTRATION, permission = Permission::Administer)]
#[api(answer = BulkJob, answers(202 = "The bulk job."), also(Code::NotFound, Code::WrongState))]
pub struct DeleteNamespace {
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Answer)]
pub struct Namespace {
    pub name: String,
    pub suspension_timeout_ms: Option<i64>,
    pub retention_ms: Option<i64>,
    pub weight: u32,
    /// True while a bulk job deletes it.
    pub deleting: bool,
}
