-- Replaces the character U+0000 in texts that the views show and that earlier builds wrote: SQL functions take it for the end of the
-- text. In JSON it is \u0000, except after another backslash: pairs of backslashes are set aside as the character 1, which JSON cannot
-- contain.
update executions
set detail = replace(replace(replace(detail, '\\', char(1)), '\u0000', '\ufffd'), char(1), '\\')
where instr(detail, '\u0000') > 0;

update projected_events
set data = replace(replace(replace(data, '\\', char(1)), '\u0000', '\ufffd'), char(1), '\\')
where instr(data, '\u0000') > 0;

-- Only functions of blobs find the character itself.
update projected_attempts
set error_message = (
  with recursive replaced (done, rest) as (
    select '', cast(error_message as blob)
    union all
    select
      done || cast(substr(rest, 1, instr(rest, x'00') - 1) as text) || char(65533),
      substr(rest, instr(rest, x'00') + 1)
    from replaced
    where instr(rest, x'00') > 0
  )
  select done || cast(rest as text) from replaced where instr(rest, x'00') = 0
)
where instr(cast(error_message as blob), x'00') > 0;
