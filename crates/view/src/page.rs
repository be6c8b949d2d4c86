//! The page, and what it asks.

use crate::control::Answer;
use crate::hub::Hub;
use crate::peer::{Peer, Reply};
use std::sync::Arc;

/// The page.
pub(crate) const HTML: &str = include_str!("assets/live.html");

/// A page somewhere that is connected.
#[derive(Debug)]
pub struct PageClient {
    me: Arc<Peer>,
}

impl PageClient {
    /// One that has asked nothing yet.
    pub fn new(me: Arc<Peer>) -> Self {
        Self { me }
    }

    /// Answers what the page asks. It comes from outside: anything may be in it.
    pub fn hear(&mut self, text: &str, _hub: &Hub) -> Vec<Reply> {
        vec![Reply::Text(format!("{}: {text}", self.me.by))]
    }

    /// The robot has answered request `id` of this page (the number [`Hub::ask`] gave).
    pub fn answered(&mut self, id: u64, answer: &Answer) -> Vec<Reply> {
        vec![Reply::Text(format!("{id}: {answer:?}"))]
    }
}
