//! The way to the robot: the live view's connection for programs, the only one by which anything may be asked of it.

use khz_view::{AskError, Connection};
use std::net::SocketAddr;

/// Where a robot's live view is.
#[derive(Clone, Debug)]
pub struct View {
    /// Its address.
    pub at: SocketAddr,
    /// Its token, if it has one.
    pub token: Option<String>,
}

/// A connection that is made when it is needed, and made again when it broke.
pub struct Asker {
    view: Option<View>,
    connection: Option<Connection>,
}

impl Asker {
    /// One that is not connected yet.
    pub fn new(view: Option<View>) -> Self {
        Self { view, connection: None }
    }

    /// Asks. A connection that has broken since the last time, because the robot was started anew, is made again once.
    /// Blocks, 5 s at most for each attempt.
    ///
    /// # Errors
    /// Why nothing can be asked, or what the robot refused.
    pub fn ask<T>(
        &mut self,
        mut what: impl FnMut(&mut Connection) -> Result<T, AskError>,
    ) -> Result<T, String> {
        let Some(view) = &self.view else {
            return Err("this bridge only passes samples on: start the robot with --view, and the bridge with --view ADDRESS:PORT".into());
        };
        let was_open = self.connection.is_some();
        for is_last in [!was_open, true] {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => {
                    Connection::open(view.at, view.token.as_deref()).map_err(|error| error.to_string())?
                }
            };
            match what(&mut connection) {
                Err(AskError::Refused(why)) => {
                    self.connection = Some(connection);
                    return Err(why);
                }
                Err(error) if is_last => return Err(error.to_string()),
                Err(_) => {}
                Ok(answer) => {
                    self.connection = Some(connection);
                    return Ok(answer);
                }
            }
        }
        Err("the live view does not answer".into())
    }
}
