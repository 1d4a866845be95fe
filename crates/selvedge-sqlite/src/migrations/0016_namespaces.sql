-- The timeout of suspensions that give none, per namespace.
alter table namespaces
add column suspension_timeout_ms integer check (suspension_timeout_ms >= 0);
