-- Waitpoints say which signals their token may send (a JSON list of names; null: any, as created by earlier builds), what
-- they ask, and how often their token was issued again. Two indexes serve lists of the waitpoints of a namespace.

alter table waitpoints add column signals text;
alter table waitpoints add column prompt text;
alter table waitpoints add column issue integer not null default 0 check (issue >= 0);

create index waitpoints_by_state
on waitpoints (namespace, state, created_at, id);

create index waitpoints_by_source
on waitpoints (namespace, source, state, created_at, id);
