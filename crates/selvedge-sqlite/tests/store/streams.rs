//! Appending to a stream takes as many steps for the first frame as for the hundred-thousandth.

use crate::support::{Directory, steps};
use rusqlite::types::Null;
use rusqlite::{Connection, params};
use selvedge_sqlite::SqliteStore;
use selvedge_store::Transactions;

/// Stream 1 has one frame. Stream 2 has 100 000, of which the durable ones and the last thousand best-effort ones remain.
const FILL: &str = "
with recursive numbers (n) as (select 0 union all select n + 1 from numbers where n < 99999)
insert into frames
select cast(zeroblob(15) || x'02' as blob), 1, n, 1, n % 10 <> 0, n, x'31', null
from numbers
where n % 10 = 0 or n > 98900;
insert into frames values (cast(zeroblob(15) || x'01' as blob), 1, 0, 1, 0, 0, x'31', null);
insert into streams values (cast(zeroblob(15) || x'01' as blob), 1, 1, 0, 0, 0, 0);
insert into streams values (cast(zeroblob(15) || x'02' as blob), 1, 100000, 0, 0, 0, 98901);
";

#[tokio::test]
async fn an_append_takes_as_many_steps_for_the_first_frame_as_for_the_hundred_thousandth() {
    let directory = Directory::new();
    let store = SqliteStore::open(&directory.database()).await;
    store.expect("the store opens").close().await;
    let connection = Connection::open(directory.database()).expect("the file opens");
    connection.execute_batch(FILL).expect("the file is filled");
    let id = |number: u8| {
        let mut id = [0; 16];
        id[15] = number;
        id
    };
    let append = |number: u8, next: u32| {
        let id = id(number);
        [
            steps(&connection, "streams/read", params![id, 1]),
            steps(&connection, "streams/upsert", params![id, 1, next + 1, 1, 1, 0]),
            steps(&connection, "frames/insert", params![id, 1, next, 1, false, 7, b"1", Null]),
            steps(&connection, "frames/list", params![id, 1, next, i64::MAX, 0, 10]),
        ]
    };
    let (short, long) = (append(1, 1), append(2, 100_000));
    for (short, long) in short.iter().zip(long) {
        assert!(long <= short + 2, "{long} steps instead of {short}");
    }
    let dropped = steps(&connection, "frames/delete_before", params![id(2), 1, 99_001]);
    assert!(dropped < 5_000, "{dropped} steps for a hundred frames");
}
