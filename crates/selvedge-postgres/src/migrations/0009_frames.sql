-- The worker's name for what a frame belongs to.
alter table frames
  add column correlation_id text;
