-- Reports whether the store contains the root secret, and whether it has API keys that were not revoked.
-- Locks: none. Index: none: the first table has at most one row, and the second one is read up to the first match.
select
  exists (
    select
    from kept_secret
  ),
  exists (
    select
    from api_keys
    where revoked_at is null
  )
