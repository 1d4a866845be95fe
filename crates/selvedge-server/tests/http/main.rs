//! Tests of the API over HTTP on loopback, with the in-memory store.

mod api;
mod auth;
mod events;
mod executions;
mod flows;
mod gates;
mod openapi;
mod pages;
mod schedules;
mod support;
mod suspensions;
mod webhooks;
mod worker_lives;
mod workers;
