//! The description of an operation: its parameters, its request and its answers.
//!
//! Problems that follow from the form of an operation are added here: a body can be malformed, and the id in a path can be
//! unknown. The description of an operation lists only the others.

use crate::Code;
use crate::node::Node;
use crate::schema::{self, Field, Schema, answer, list, nullable, text};
use selvedge_core::rules::OPERATION_WINDOW_MS;
use serde_json::Value;

/// The codes that every operation of the API may answer with.
const GENERAL: [Code; 7] = [
    Code::CrossOrigin,
    Code::WrongHost,
    Code::RateLimited,
    Code::Internal,
    Code::StoreUnavailable,
    Code::ShuttingDown,
    Code::Overloaded,
];
/// The codes that every operation with a body may answer with.
const OF_BODIES: [Code; 5] =
    [Code::InvalidJson, Code::RequestTimeout, Code::PayloadTooLarge, Code::InvalidField, Code::UnknownField];

/// An operation: a method of a path.
pub struct Description {
    pub method: &'static str,
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// The name of the operation, from which SDKs take the names of their methods.
    pub id: &'static str,
    /// The group of operations in which the reference lists it.
    pub tag: &'static str,
    /// One line about the operation.
    pub summary: &'static str,
    /// More about the operation; may be empty.
    pub description: String,
    parameters: Vec<Parameter>,
    body: Option<Body>,
    answers: Vec<Answer>,
    problems: Vec<Code>,
}

struct Parameter {
    place: &'static str,
    name: &'static str,
    schema: Schema,
    about: String,
    /// True for a list that is written with commas in one value.
    is_joined: bool,
}

struct Body {
    schema: Schema,
    example: Value,
    is_required: bool,
    content_type: &'static str,
}

struct Answer {
    status: u16,
    about: &'static str,
    /// The schema of each content type.
    contents: Vec<(&'static str, Schema)>,
}

/// Returns the description of an operation without parameters, request and answers.
pub fn operation(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> Description {
    let mut operation = Description {
        method,
        path,
        id,
        tag: "",
        summary,
        description: String::new(),
        parameters: Vec::new(),
        body: None,
        answers: Vec::new(),
        problems: GENERAL.to_vec(),
    };
    for name in path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
        let (schema, about) = match name {
            "id" => (schema::id(), "The id."),
            "number" => (schema::total(), "The number."),
            "instance" => (schema::name(), "The instance of the worker: a name of its process."),
            _ => (schema::name(), "The name."),
        };
        let parameter = Parameter { place: "path", name, schema, about: about.into(), is_joined: false };
        operation.parameters.push(parameter);
    }
    operation
}

impl Description {
    /// Sets the group.
    pub fn tag(mut self, tag: &'static str) -> Self {
        self.tag = tag;
        self
    }

    /// Says more about the operation.
    pub fn about(mut self, text: &str) -> Self {
        self.description = text.to_owned();
        self
    }

    /// Adds a parameter of the query.
    pub fn query(self, name: &'static str, schema: Schema, about: impl Into<String>) -> Self {
        self.parameter("query", name, schema, about, false)
    }

    /// Adds a parameter of the query that is a list, written with commas in one value.
    pub fn joined_query(self, name: &'static str, items: Schema, about: impl Into<String>) -> Self {
        self.parameter("query", name, list(items), about, true)
    }

    /// Adds a header.
    pub fn header(self, name: &'static str, schema: Schema, about: impl Into<String>) -> Self {
        self.parameter("header", name, schema, about, false)
    }

    fn parameter(
        mut self,
        place: &'static str,
        name: &'static str,
        schema: Schema,
        about: impl Into<String>,
        is_joined: bool,
    ) -> Self {
        self.parameters.push(Parameter { place, name, schema, about: about.into(), is_joined });
        self.also([Code::InvalidField, Code::UnknownField])
    }

    /// Adds the parameters of a list, `limit` and `cursor`.
    pub fn paged(self) -> Self {
        self.query("limit", schema::page_limit(), "The maximum number of items of the page.")
            .query("cursor", text(), "The next_cursor of the page before, unchanged.")
            .also([Code::InvalidCursor])
    }

    /// Adds the header `Idempotency-Key`.
    pub fn repeatable(self) -> Self {
        let about = format!(
            "Makes the request safe to repeat for {}: a repetition with the same content changes nothing and answers with \
             duplicate: true.",
            schema::period_text(OPERATION_WINDOW_MS)
        );
        self.header("Idempotency-Key", schema::key(), about).also([Code::IdempotencyMismatch])
    }

    /// Adds the header `traceparent`.
    pub fn traced(self) -> Self {
        let about = "The span that submits (W3C Trace Context), which workers receive with the claim. Ignored if it is malformed.";
        self.header("traceparent", text(), about)
    }

    /// Sets the body, which must be given.
    pub fn body(self, schema: Schema, example: Value) -> Self {
        self.with_body(schema, example, true, "application/json")
    }

    /// Sets the body, which may be left out.
    pub fn body_if_any(self, schema: Schema, example: Value) -> Self {
        self.with_body(schema, example, false, "application/json")
    }

    /// Sets the body to a JSON merge patch.
    pub fn merge_patch(self, schema: Schema, example: Value) -> Self {
        self.with_body(schema, example, true, "application/merge-patch+json")
    }

    fn with_body(
        mut self,
        schema: Schema,
        example: Value,
        is_required: bool,
        content_type: &'static str,
    ) -> Self {
        self.body = Some(Body { schema, example, is_required, content_type });
        self.also(OF_BODIES)
    }

    /// Adds an answer in JSON.
    pub fn answers(self, status: u16, about: &'static str, schema: Schema) -> Self {
        self.answers_as(status, about, vec![("application/json", schema)])
    }

    /// Adds an answer of several content types.
    pub fn answers_as(
        mut self,
        status: u16,
        about: &'static str,
        contents: Vec<(&'static str, Schema)>,
    ) -> Self {
        self.answers.push(Answer { status, about, contents });
        self
    }

    /// Adds an answer with a page of a list.
    pub fn answers_page(self, items: Schema) -> Self {
        self.answers_page_with(items, Vec::new())
    }

    /// Adds an answer with a page of a list and further fields.
    pub fn answers_page_with(self, items: Schema, more: Vec<Field>) -> Self {
        let cursor = text().about("The cursor of the next page; null at the end of the list.");
        let mut fields = vec![schema::always("items", list(items)), nullable("next_cursor", cursor)];
        fields.extend(more);
        self.answers(200, "A page of the list.", answer(fields))
    }

    pub fn also(mut self, codes: impl IntoIterator<Item = Code>) -> Self {
        for code in codes {
            if !self.problems.contains(&code) {
                self.problems.push(code);
            }
        }
        self
    }

    /// Returns the problems, ordered by status.
    pub fn problems(&self) -> Vec<Code> {
        let names_something =
            self.path.contains("{id}") || self.path.contains("{number}") || self.path.contains("{instance}");
        let is_implied = |code: &Code| *code == Code::NotFound && names_something;
        Code::ALL.into_iter().filter(|code| self.problems.contains(code) || is_implied(code)).collect()
    }

    /// Returns the operation as the document has it. `access` describes the permission that it needs.
    pub fn node(&self, access: &Access) -> Node {
        let mut node = Node::object()
            .with("operationId", self.id)
            .with("tags", vec![self.tag])
            .with("summary", self.summary);
        let mut description = self.description.clone();
        if let Some(role) = access.role {
            let separator = if description.is_empty() { "" } else { "\n\n" };
            let scope = if access.is_of_server { " and a key of every namespace" } else { "" };
            description += &format!("{separator}Needs the role {role}{scope}.");
            node.set("x-required-role", role);
        }
        if !description.is_empty() {
            node.set("description", description);
        }
        node.set("security", access.security.clone());
        let mut parameters: Vec<Node> = self.parameters.iter().map(Parameter::node).collect();
        if access.role.is_some() {
            let about = "The namespace, for a key of several namespaces.".into();
            let schema = schema::name();
            let header =
                Parameter { place: "header", name: "Selvedge-Namespace", schema, about, is_joined: false };
            parameters.push(header.node());
        }
        if !parameters.is_empty() {
            node.set("parameters", parameters);
        }
        if let Some(body) = &self.body {
            node.set("requestBody", body.node());
        }
        let mut responses = Node::object();
        for answer in &self.answers {
            responses.set(&answer.status.to_string(), answer.node());
        }
        let codes: Vec<Code> = self.problems().into_iter().chain(access.problems.clone()).collect();
        let mut statuses: Vec<u16> = codes.iter().map(|code| code.info().status).collect();
        statuses.sort_unstable();
        statuses.dedup();
        for status in statuses {
            let of_status = |code: &&Code| code.info().status == status;
            let codes: Vec<&str> = codes.iter().filter(of_status).map(|code| code.info().code).collect();
            responses.set(&status.to_string(), problem_node(&codes));
        }
        node.with("responses", responses)
    }
}

/// The role that an operation needs.
pub struct Access {
    /// The least role; none if the operation is open to everybody.
    pub role: Option<&'static str>,
    /// True if the key must be of every namespace.
    pub is_of_server: bool,
    /// The field `security` of the operation.
    pub security: Node,
    /// The problems of callers that may not use it.
    pub problems: Vec<Code>,
}

fn problem_node(codes: &[&str]) -> Node {
    let problem = Node::object().with("schema", schema::shape("Problem").0);
    Node::object()
        .with("description", codes.join(", "))
        .with("content", Node::object().with("application/problem+json", problem))
        .with("x-problem-codes", codes.to_vec())
}

impl Parameter {
    fn node(&self) -> Node {
        let mut node = Node::object().with("name", self.name).with("in", self.place);
        if self.place == "path" {
            node.set("required", true);
        }
        node.set("description", self.about.clone());
        if self.is_joined {
            node.set("style", "form");
            node.set("explode", false);
        }
        node.with("schema", self.schema.0.clone())
    }
}

impl Body {
    fn node(&self) -> Node {
        let content =
            Node::object().with("schema", self.schema.0.clone()).with("example", self.example.clone());
        Node::object()
            .with("required", self.is_required)
            .with("content", Node::object().with(self.content_type, content))
    }
}

impl Answer {
    fn node(&self) -> Node {
        let mut node = Node::object().with("description", self.about);
        let mut content = Node::object();
        for (content_type, schema) in &self.contents {
            content.set(content_type, Node::object().with("schema", schema.0.clone()));
        }
        if !self.contents.is_empty() {
            node.set("content", content);
        }
        node
    }
}
