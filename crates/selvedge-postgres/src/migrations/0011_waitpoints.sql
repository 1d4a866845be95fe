-- Waitpoints say which signals their token may send (a JSON list of names; null: any, as created by earlier builds), what
-- they ask, and how often their token was issued again. Two indexes serve lists of the waitpoints of a namespace.
-- They contain the state, so the one update that closes a waitpoint is no longer heap-only: it writes all its index entries again.

alter table waitpoints
  add column signals text,
  add column prompt text,
  add column issue integer not null default 0,
  add constraint issue_is_a_count check (issue >= 0);

create index waitpoints_by_state on waitpoints (namespace, state, created_at, id);
create index waitpoints_by_source on waitpoints (namespace, source, state, created_at, id);
