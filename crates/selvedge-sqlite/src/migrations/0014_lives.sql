-- The lives of sessions: a session ends when its worker departs or is superseded, and begins again with the next claim.
alter table sessions add column life integer not null default 0;

-- A JSON object: the incarnation, the superseded ones, and the end; null if there are none.
alter table sessions add column detail text;
