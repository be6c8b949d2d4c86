//! What clients and robots send, without sockets: for the fuzz target.

use crate::access::Access;
use crate::ask::Asking;
use crate::client::Speaker;
use crate::foxglove::Foxglove;
use crate::http::{self, Request};
use crate::hub::Hub;
use crate::page::PageClient;
use crate::peer::Queued;

/// Takes the bytes as the head of a request, as what a robot sends, and as messages of clients of each kind; `pieces` are
/// their messages.
#[doc(hidden)]
pub fn receive<'a>(
    head: &[u8],
    datagrams: impl Iterator<Item = &'a [u8]>,
    pieces: impl Iterator<Item = &'a [u8]>,
) {
    if let Ok(Some((request, _))) = Request::parse(head) {
        let _ = (Access::default().check(&request), Access::default().with_token("t").check(&request));
        let _ = (request.accept(), request.protocol(), http::serve(&request, ""));
    }
    let hub = Hub::default();
    datagrams.for_each(|bytes| hub.datagram(bytes));
    let Ok(Some(peer)) = hub.join("fuzz".into(), [127, 0, 0, 1].into()) else { return };
    let mut speakers: [Box<dyn Speaker>; 3] = [
        Box::new(Foxglove::new(peer.clone())),
        Box::new(PageClient::new(peer.clone())),
        Box::new(Asking::new(peer.clone())),
    ];
    speakers.iter_mut().for_each(|speaker| _ = speaker.begin(&hub));
    for piece in pieces {
        for speaker in &mut speakers {
            if let Ok(text) = std::str::from_utf8(piece) {
                speaker.receive_text(text, &hub);
            }
            speaker.receive_binary(piece, &hub);
            speaker.notice(peer.notices(), &hub);
        }
    }
    let mut messages: Vec<Queued> = Vec::new();
    peer.take(usize::MAX, &mut messages);
    for message in &messages {
        speakers.iter_mut().for_each(|speaker| _ = speaker.message(message));
    }
    hub.leave(&peer);
}
