-- Closes the waitpoints of executions that have ended (state 10 and above), which earlier builds left open: expired (2), without
-- an event.
update waitpoints
set state = 2
from executions
where waitpoints.state = 0
  and executions.id = waitpoints.execution
  and executions.state >= 10;

-- Replaces the character U+0000 in stored texts. Postgres cannot convert JSON that contains it to text, so one such text failed
-- every query of the views. In JSON it is a backslash (92) and u0000, after an even number of backslashes: after an odd number it
-- is a backslash of the text itself. The backslash is not written as such, so that standard_conforming_strings does not matter.
update executions
set detail = regexp_replace(
  detail,
  replace('(?<!//)((?:////)*)//u0000', '/', chr(92)),
  replace('/1/ufffd', '/', chr(92)),
  'g'
)
where position(chr(92) || 'u0000' in detail) > 0;
