//! Messages received from bodies in pieces, valid and invalid.

use std::collections::VecDeque;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Frame;
use monoceros_proto::si::v1 as si;
use tokio::time::sleep;
use tonic::Status;

use super::*;
use crate::settings::{Flags, Settings};
use prost::Message as _;

/// A body that delivers these pieces at intervals; the last one may never be delivered.
struct Pieces {
    left: VecDeque<Bytes>,
    every: Duration,
    next: Pin<Box<tokio::time::Sleep>>,
    ends: bool,
}

impl tonic::codegen::Body for Pieces {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        ready!(self.next.poll_unpin(cx));
        let every = self.every;
        match self.left.pop_front() {
            None if !self.ends => Poll::Pending,
            piece => {
                self.next.as_mut().reset(Instant::now() + every);
                Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }
}

fn messages(body: &[u8], piece: usize, every: Duration, ends: bool) -> Messages {
    let settings = Settings::load(None, &Flags::default()).unwrap();
    let common = Arc::new(Common::new(&settings.grpc, &settings.limits));
    let method = common.shapes.method("/si.v1.Scheduler/UpdateNode").unwrap();
    let left = body.chunks(piece).map(Bytes::copy_from_slice).collect();
    let next = Box::pin(sleep(Duration::ZERO));
    let body = Body::new(Pieces { left, every, next, ends });
    Messages::new(&common, body, method, true, None)
}

fn request(n: usize) -> si::NodeRequest {
    let nodes = (0..n).map(|n| si::NodeInfo { node_id: format!("n{n}"), ..Default::default() });
    si::NodeRequest { nodes: nodes.collect(), rm_id: "rm".to_owned(), ..Default::default() }
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flag], &length[..], message].concat()
}

fn gzip(message: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(message).unwrap();
    gzip.finish().unwrap()
}

#[tokio::test(start_paused = true)]
async fn messages_survive_any_framing() {
    let sent = [request(0), request(3), request(40_000), request(1)];
    let bytes: Vec<u8> = (sent.iter().flat_map(|request| {
        let plain = request.encode_to_vec();
        [framed(0, &plain), framed(1, &gzip(&plain))].concat()
    }))
    .collect();
    for piece in [7_919, 64 << 10, bytes.len()] {
        let mut messages = messages(&bytes, piece, Duration::ZERO, true);
        messages.bound();
        for request in sent.iter().flat_map(|request| [request, request]) {
            let message = messages.message().await.unwrap().unwrap();
            assert_eq!(message.rm_id(), "rm");
            let decoded = message.decode::<si::NodeRequest>().await.unwrap();
            assert!(decoded.message == *request);
            assert_eq!(decoded.credit.is_some(), request.nodes.len() > 1_000);
        }
        assert!(messages.message().await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_can_be_cancelled() {
    let plain = request(20_000).encode_to_vec();
    let bytes = [framed(0, &plain), framed(1, &gzip(&plain))].concat();
    let mut messages = messages(&bytes, 10_000, Duration::from_millis(1), true);
    let mut n_messages = 0;
    loop {
        match messages.message().now_or_never() {
            Some(Ok(Some(message))) => {
                assert!(message.decode::<si::NodeRequest>().await.is_ok());
                n_messages += 1;
            }
            Some(Ok(None)) => break,
            Some(Err(broken)) => panic!("{broken:?}"),
            None => sleep(Duration::from_millis(1)).await,
        }
    }
    assert_eq!(n_messages, 2);
}

/// The reason of the refusal.
async fn refusal(body: &[u8]) -> StreamEnd {
    match messages(body, 1 << 20, Duration::ZERO, true).message().await.map(|_| ()) {
        Err(Broken::Refused(end)) => end,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_messages_give_a_reason() {
    let code = |end| match end {
        StreamEnd::Unreadable { code, .. } => code,
        other => panic!("{other:?}"),
    };
    let announced = [&[0][..], &u32::MAX.to_be_bytes()].concat();
    assert_eq!(code(refusal(&announced).await), Code::OutOfRange);
    assert_eq!(code(refusal(&framed(2, b"")).await), Code::Internal);
    assert_eq!(code(refusal(&framed(0, b"abc")[..6]).await), Code::Internal);
    assert_eq!(code(refusal(&framed(1, b"no gzip at all, and long enough")).await), {
        // The last bytes, read as the decompressed length, exceed the limit.
        Code::ResourceExhausted
    });
    let mut lies = gzip(&request(1_000).encode_to_vec());
    let length = lies.len();
    lies[length - 4..].copy_from_slice(&10_u32.to_le_bytes());
    assert_eq!(code(refusal(&framed(1, &lies)).await), Code::Internal);
    let items = b"\x0a\x00".repeat(200_001);
    let end = refusal(&framed(1, &gzip(&items))).await;
    assert!(matches!(end, StreamEnd::TooManyItems { items: 200_001, .. }), "{end:?}");
}

/// A node of three bytes contains an allocation that is much longer: the decoder would read the
/// whole allocation, with any lists in it, before it notices.
#[tokio::test(start_paused = true)]
async fn inner_message_longer_than_outer_is_not_decoded() {
    let mut bytes = vec![0x0a, 3, 0x32];
    prost::encoding::encode_varint(100_000, &mut bytes);
    bytes.resize(bytes.len() + 100_000, 0);
    for length in [bytes.len(), 1_000, 5] {
        let end = refusal(&framed(0, &bytes[..length])).await;
        let is_broken = matches!(&end, StreamEnd::Unreadable { code: Code::Internal, message }
            if message.starts_with("a message could not be decoded"));
        assert!(is_broken, "{end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_client_is_cut_off_and_slow_one_is_not() {
    let message = framed(0, &request(10_000).encode_to_vec());
    let began = Instant::now();
    let mut stops = messages(&message[..70_000], 70_000, Duration::ZERO, false);
    let end = stops.message().await.map(|_| ());
    assert!(matches!(end, Err(Broken::Refused(StreamEnd::TooSlow))), "{end:?}");
    assert!(began.elapsed() <= Duration::from_secs(60), "{:?}", began.elapsed());
    let began = Instant::now();
    let mut slow = messages(&message, 2_000, Duration::from_secs(1), true);
    assert!(slow.message().await.unwrap().is_some());
    assert!(began.elapsed() > Duration::from_secs(40));
}
