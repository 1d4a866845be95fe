//! The rules of flows: submitting, growing and ending them, and propagating the ends of their executions.

pub mod children;
pub mod dispatch;
pub mod graft;
pub mod grow;
pub mod join;
pub mod submit;
pub mod whole;
