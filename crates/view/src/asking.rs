//! The other end: a program that asks a server for parameters and sets them, stops the robot or steers it.

use crate::control::{Answer, Ask, Denied, Teleop};
use crate::http::{self, ASK, MAX_HEAD};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use khz_run::channel::{Program, Question, ViewMessage};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tungstenite::protocol::Role;
use tungstenite::{Message, WebSocket};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a server could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No server is there.
    #[error("no live view at {0}: {1}")]
    NotServed(SocketAddr, io::Error),
    /// The server does not want to talk.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The server answered, but not the robot behind it.
    #[error("{0}")]
    Unanswered(String),
    /// The conversation broke off.
    #[error("the live view does not answer: {0}")]
    Broken(String),
}

impl From<AskError> for Denied {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Refused(why) => Self::Refused(why),
            other => Self::Unreachable(other.to_string()),
        }
    }
}

/// A connection to a server, for programs that ask little of a robot. Every call blocks, 5 s at most.
pub struct Connection {
    socket: WebSocket<TcpStream>,
    run: Option<u64>,
    whom: Option<String>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// No server is there, or the token is wrong.
    pub fn open(at: SocketAddr, token: Option<&str>) -> Result<Self, AskError> {
        let mut stream =
            TcpStream::connect_timeout(&at, PATIENCE).map_err(|error| AskError::NotServed(at, error))?;
        let broken = |error: io::Error| AskError::Broken(error.to_string());
        stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(broken)?;
        let mut nonce = [0; 16];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| broken(error.into()))?;
        let key = STANDARD.encode(nonce);
        stream.write_all(request(at, token, &key).as_bytes()).map_err(broken)?;
        let behind = read_answer(&mut stream, &http::accept(&key))?;
        let socket = WebSocket::from_partially_read(stream, behind, Role::Client, None);
        Ok(Self { socket, run: None, whom: None })
    }

    /// What is asked from now on is meant for this run (the number in a recorder's datagrams): the server refuses it if it has
    /// another. `None`: for whichever it has.
    pub fn mean(&mut self, run: Option<u64>) {
        self.run = run;
    }

    /// For whom this program asks from now on: the robot's log has it.
    pub fn ask_for(&mut self, whom: Option<&str>) {
        self.whom = whom.map(str::to_owned);
    }

    /// The robot's parameters, each as an object with `name`, `type`, `unit`, `min`, `max`, `default`, `text` and `value`.
    ///
    /// # Errors
    /// The server does not answer, or the robot has not reported its parameters yet.
    pub fn parameters(&mut self) -> Result<Vec<Value>, AskError> {
        let mut answer = self.ask(Question::Parameters)?;
        match answer.get_mut("parameters").map(Value::take) {
            Some(Value::Array(all)) => Ok(all),
            _ => done(&answer).and(Err(AskError::Broken("it sent another answer".into()))),
        }
    }

    /// Sets parameters, all or none of them. Returns the tick that took them. Asks for the server's clock first: a connection that
    /// is held up delivers nothing later than a second.
    ///
    /// # Errors
    /// The robot refused, or the server does not answer.
    pub fn set(&mut self, values: &serde_json::Map<String, Value>) -> Result<Option<u64>, AskError> {
        let now_us = self.now_us()?;
        self.set_since(values, now_us)
    }

    /// As [`set`](Self::set), for a client whose newest time of [`now_us`](Self::now_us) was `now_us` when the request was
    /// decided: the robot takes the request as at least that old.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_since(
        &mut self,
        values: &serde_json::Map<String, Value>,
        now_us: u64,
    ) -> Result<Option<u64>, AskError> {
        done(&self.ask(Question::Ask(Ask::Set(values.clone()), Some(now_us)))?)
    }

    /// Stops the robot, as Ctrl-C does. Returns the tick that obeyed.
    ///
    /// # Errors
    /// The robot refused, or the server does not answer.
    pub fn stop(&mut self) -> Result<Option<u64>, AskError> {
        done(&self.ask(Question::Ask(Ask::Stop, None))?)
    }

    /// The server's clock, µs: what an input of [`steer`](Self::steer) shows its age by.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn now_us(&mut self) -> Result<u64, AskError> {
        Ok(self.now()?.0)
    }

    /// The server's clock as [`now_us`](Self::now_us), and the number of its run, if it has one yet.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn now(&mut self) -> Result<(u64, Option<u64>), AskError> {
        let answer = self.ask(Question::Now)?;
        let number = |name| answer.get(name).and_then(Value::as_u64);
        let now_us = number("now_us").ok_or_else(|| AskError::Broken("it sent another answer".into()))?;
        Ok((now_us, number("run")))
    }

    /// Steers the robot. `now_us` is the newest time of [`now_us`](Self::now_us) that the operator had received: the robot takes
    /// the input as at least that old. A refusal is not reported: whether the robot took an input is in its record `teleop`.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn steer(&mut self, teleop: &Teleop, now_us: u64) -> Result<(), AskError> {
        self.send(Question::Steer(*teleop, now_us))
    }

    fn send(&mut self, question: Question) -> Result<(), AskError> {
        let program = Program { question, run: self.run, whom: self.whom.clone() };
        self.socket.send(Message::text(program.json())).map_err(broken)
    }

    fn ask(&mut self, question: Question) -> Result<Value, AskError> {
        self.send(question)?;
        loop {
            match self.socket.read().map_err(broken)? {
                Message::Text(text) => {
                    let answer: Value =
                        serde_json::from_str(&text).map_err(|error| AskError::Broken(error.to_string()))?;
                    if !ViewMessage::is_of_steering(&answer) {
                        return Ok(answer);
                    }
                }
                Message::Close(_) => return Err(AskError::Broken("it ended the connection".into())),
                _ => {}
            }
        }
    }
}

fn broken(error: tungstenite::Error) -> AskError {
    AskError::Broken(error.to_string())
}

/// The tick of an answer.
fn done(answer: &Value) -> Result<Option<u64>, AskError> {
    match Answer::read(answer) {
        Some(Answer::Denied(Denied::Refused(why))) => Err(AskError::Refused(why)),
        Some(Answer::Denied(Denied::Unreachable(why))) => Err(AskError::Unanswered(why)),
        Some(Answer::Done(tick)) => Ok(tick),
        None => Err(AskError::Broken("it sent another answer".into())),
    }
}

fn request(at: SocketAddr, token: Option<&str>, key: &str) -> String {
    // Whatever else a token has in it must not become part of the head, and is in no right one.
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || ['-', '_'].contains(letter);
    let query = token.map(|token| format!("?token={}", token.chars().filter(is_plain).collect::<String>()));
    format!(
        "GET /{} HTTP/1.1\r\nHost: {at}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {ASK}\r\n\r\n",
        query.unwrap_or_default()
    )
}

/// Reads the head of the answer; returns what came behind it.
fn read_answer(stream: &mut TcpStream, accept: &str) -> Result<Vec<u8>, AskError> {
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    loop {
        let len = stream.read(&mut part).map_err(|error| AskError::Broken(error.to_string()))?;
        head.extend_from_slice(&part[..len]);
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut response = httparse::Response::new(&mut headers);
        let status = response.parse(&head).map_err(|_| AskError::Broken("it is no live view".into()))?;
        let httparse::Status::Complete(end) = status else {
            if len == 0 || head.len() > MAX_HEAD {
                return Err(AskError::Broken("it is no live view".into()));
            }
            continue;
        };
        let is_ours = response.headers.iter().any(|header| {
            header.name.eq_ignore_ascii_case("sec-websocket-accept") && header.value == accept.as_bytes()
        });
        return match response.code {
            Some(101) if is_ours => Ok(head.split_off(end)),
            Some(101) | None => Err(AskError::Broken("it is no live view".into())),
            Some(code) => Err(AskError::Refused(why(code, stream, head.split_off(end)))),
        };
    }
}

/// The reason in a refusal.
fn why(code: u16, stream: &mut TcpStream, mut body: Vec<u8>) -> String {
    // As much of it as comes.
    let _ = stream.take(1024).read_to_end(&mut body);
    let text = String::from_utf8_lossy(&body);
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => line.to_owned(),
        _ => format!("HTTP status {code}"),
    }
}
