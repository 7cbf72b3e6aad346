//! Connections that attack the service: thousands of streams opened and reset, floods of pings,
//! settings and headers, empty data frames. Each is closed or slowed down before it costs anything,
//! and a resource manager on another connection is served meanwhile.
//!
//! HTTP/2 libraries do not send such frames, so they are written here byte by byte.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;

use crate::harness::{PATIENCE, Rm, Service, ask, node};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// Frame types.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_HEADERS: u8 = 4;

/// HTTP/2 error codes.
const PROTOCOL_ERROR: u32 = 1;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

/// More frames than any attack can send before it is stopped.
const MANY: u32 = 100_000;

/// Much more than the sockets of both sides hold.
const MUCH: usize = 256 << 20;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A literal header; the name may be one of HTTP/2's pseudo headers.
fn header(name: &str, value: &str) -> Vec<u8> {
    literal(0, name, value)
}

/// A literal header in HPACK; the first byte says whether the receiver stores it.
fn literal(first: u8, name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| match u8::try_from(text.len()) {
        Ok(length) if length < 127 => [&[length], text.as_bytes()].concat(),
        // 127, and the rest in groups of seven bits.
        _ => {
            let (mut length, mut bytes) = (text.len() - 127, vec![127]);
            while length >= 128 {
                bytes.push(u8::try_from(length % 128).unwrap() | 128);
                length /= 128;
            }
            bytes.push(u8::try_from(length).unwrap());
            [&bytes, text.as_bytes()].concat()
        }
    };
    [vec![first], text(name), text(value)].concat()
}

/// The headers of a stream on which an RM would send its asks.
fn request() -> Vec<u8> {
    [
        header(":method", "POST"),
        header(":scheme", "http"),
        header(":authority", "localhost"),
        header(":path", "/si.v1.Scheduler/UpdateAllocation"),
        header("content-type", "application/grpc"),
        header("te", "trailers"),
    ]
    .concat()
}

/// The stream numbers of a client.
fn streams() -> impl Iterator<Item = u32> {
    (1..).step_by(2).take(MANY as usize)
}

/// The reason of a closed connection.
#[derive(Debug)]
struct GoAway {
    code: u32,
    why: String,
}

/// Opens a connection.
async fn connect(service: &Service) -> (OwnedReadHalf, OwnedWriteHalf) {
    let socket = TcpStream::connect(service.grpc).await.unwrap();
    let (from, mut to) = socket.into_split();
    to.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await.unwrap();
    (from, to)
}

/// Reads the next frame: type, stream and payload. `None` at the end.
async fn read(from: &mut OwnedReadHalf) -> Option<(u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    from.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    from.read_exact(&mut payload).await.ok()?;
    Some((head[3], u32::from_be_bytes(head[5..].try_into().unwrap()), payload))
}

/// Sends frames until the connection is closed. Returns the reason.
async fn flood(
    (mut from, mut to): (OwnedReadHalf, OwnedWriteHalf),
    frames: impl Iterator<Item = Vec<u8>> + Send + 'static,
) -> GoAway {
    let sending = tokio::spawn(async move {
        let mut frames = frames.peekable();
        while frames.peek().is_some() {
            let together: Vec<u8> = frames.by_ref().take(256).flatten().collect();
            if to.write_all(&together).await.is_err() {
                break;
            }
        }
        // Kept open: the service has to close it.
        to
    });
    let told = async {
        loop {
            let (kind, _, payload) = read(&mut from).await.expect("it is said why");
            if kind == GOAWAY {
                let code = u32::from_be_bytes(payload[4..8].try_into().unwrap());
                return GoAway { code, why: String::from_utf8_lossy(&payload[8..]).into_owned() };
            }
        }
    };
    let told = timeout(PATIENCE, told).await.expect("the connection is closed");
    sending.abort();
    told
}

/// Runs an attack while a resource manager on another connection is served, and is afterwards.
async fn beside_an_rm<T: Send + 'static>(
    service: &Service,
    abuse: impl Future<Output = T> + Send + 'static,
) -> T {
    let rm = Rm::register(service, "rm").await.with_application("app", "root.a").await;
    rm.send_nodes(vec![node("n1", 1_000_000_000, 1_000_000)]).await;
    let abuse = tokio::spawn(abuse);
    let mut asked = 0;
    loop {
        let is_over = abuse.is_finished();
        asked += 1;
        rm.send_allocations(vec![], vec![ask("app", &format!("k{asked}"))], vec![]).await;
        rm.until("placed", |seen| seen.new.len() == asked).await;
        if is_over {
            return abuse.await.unwrap();
        }
    }
}

/// Expects that the service closes a connection on which these frames are sent, with this reason.
async fn refused(frames: impl Iterator<Item = Vec<u8>> + Send + 'static, (code, why): (u32, &str)) {
    let service = Service::start();
    let connection = connect(&service).await;
    let told = beside_an_rm(&service, flood(connection, frames)).await;
    assert_eq!((told.code, told.why.as_str()), (code, why));
}

#[tokio::test]
async fn rapid_resets_end_the_connection() {
    let frames = streams().map(|stream| {
        let open = frame(HEADERS, END_HEADERS, stream, &request());
        [open, frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())].concat()
    });
    refused(frames, (ENHANCE_YOUR_CALM, "too_many_resets")).await;
}

/// These frames make the service reset the streams.
#[tokio::test]
async fn faulty_streams_end_the_connection() {
    let malformed = [request(), header(":status", "200")].concat();
    let frames = streams().map(move |stream| frame(HEADERS, END_HEADERS, stream, &malformed));
    refused(frames, (ENHANCE_YOUR_CALM, "too_many_internal_resets")).await;
}

#[tokio::test]
async fn endless_headers_end_the_connection() {
    let begun = frame(HEADERS, 0, 1, &request());
    let more =
        (0..MANY).map(|number| frame(CONTINUATION, 0, 1, &header("x-more", &number.to_string())));
    let frames = std::iter::once(begun).chain(more);
    refused(frames, (ENHANCE_YOUR_CALM, "too_many_continuations")).await;
}

/// A long header is stored and then named by single bytes, as often as fits in a frame.
#[tokio::test]
async fn header_bombs_end_the_connection() {
    let (remember, latest) = (0x40, 0xbe);
    let long = literal(remember, "x-long", &"x".repeat(4_000));
    let headers = [request(), long, vec![latest; 10_000]].concat();
    let frames = std::iter::once(frame(HEADERS, END_HEADERS, 1, &headers));
    refused(frames, (ENHANCE_YOUR_CALM, "header_list_way_too_large")).await;
}

/// A stream with too many headers is refused; the other streams of the connection continue.
#[tokio::test]
async fn oversized_headers_refuse_only_their_stream() {
    let service = Service::start();
    let (mut from, mut to) = connect(&service).await;
    let answered = async move {
        let block = [request(), header("x-long", &"x".repeat(20_000))].concat();
        let (first, rest) = block.split_at(16_000);
        let mut statuses = Vec::new();
        for stream in streams().take(2_000) {
            let long =
                [frame(HEADERS, 0, stream, first), frame(CONTINUATION, END_HEADERS, stream, rest)];
            to.write_all(&long.concat()).await.unwrap();
            let status = async {
                loop {
                    let (kind, of, payload) = read(&mut from).await.expect("it goes on");
                    assert_ne!(kind, GOAWAY);
                    if (kind, of) == (HEADERS, stream) {
                        return payload;
                    }
                }
            };
            statuses.push(timeout(PATIENCE, status).await.expect("it is answered"));
        }
        statuses
    };
    let statuses = beside_an_rm(&service, answered).await;
    // `:status: 431` in HPACK, and later by its index in the table.
    assert_eq!(statuses[0], [0x48, 0x83, 0x69, 0x90, 0xff]);
    assert!(statuses[1..].iter().all(|status| *status == [0xbe]));
}

#[tokio::test]
async fn empty_data_frames_end_the_connection() {
    let open = frame(HEADERS, END_HEADERS, 1, &request());
    let empty = std::iter::repeat_n(frame(DATA, 0, 1, &[]), MANY as usize);
    let frames = std::iter::once(open).chain(empty);
    refused(frames, (ENHANCE_YOUR_CALM, "too_many_data_frames")).await;
}

#[tokio::test]
async fn stray_acknowledgements_end_the_connection() {
    const ACK: u8 = 1;
    let frames = std::iter::repeat_n(frame(SETTINGS, ACK, 0, &[]), MANY as usize);
    refused(frames, (PROTOCOL_ERROR, "")).await;
}

/// Sends a frame that must be answered as often as it is accepted, and reads no answer. Returns the
/// bytes accepted.
async fn unread(to: &mut OwnedWriteHalf, frame: Vec<u8>) -> usize {
    let together = frame.repeat(1_000);
    let mut taken = 0;
    while taken < MUCH {
        match timeout(Duration::from_secs(2), to.write(&together[taken % frame.len()..])).await {
            Ok(written) => taken += written.unwrap(),
            Err(_) => break,
        }
    }
    taken
}

/// A client that does not read the answers to its flood is not read any further.
async fn held_up(question: Vec<u8>) {
    let service = Service::start();
    let (mut from, mut to) = connect(&service).await;
    let size = question.len();
    let flood = async move {
        let taken = unread(&mut to, question).await;
        (taken, to)
    };
    let (taken, _to) = beside_an_rm(&service, flood).await;
    assert!(taken < MUCH, "it is never held up");
    // Nothing was dropped: once the answers are read, the flood continues.
    let mut answers = 0;
    let read = async {
        while answers < taken / size {
            let (kind, ..) = read(&mut from).await.expect("it goes on");
            answers += usize::from(kind == PING || kind == SETTINGS);
        }
    };
    timeout(PATIENCE, read).await.expect("each is answered");
}

#[tokio::test]
async fn unread_pings_are_held_up() {
    held_up(frame(PING, 0, 0, &[7; 8])).await;
}

#[tokio::test]
async fn unread_settings_are_held_up() {
    held_up(frame(SETTINGS, 0, 0, &[])).await;
}
