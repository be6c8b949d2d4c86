//! The pages of all robots through one port: a list, and behind each name the robot's live view.

use crate::fleet::{NONE_SEEN, Robots, Watch};
use crate::names::RobotName;
use crate::viewed::Viewed;
use anyhow::Result;
use khz_page::{PALETTE, Text};
use khz_view::{Fleet, Hub};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zenoh::Session;

/// After so long without a viewer a robot is not received any more: its samples fill the network.
const UNSEEN: Duration = Duration::from_secs(30);
/// How many robots are received at once.
const MAX_SHOWN: usize = 16;

/// The robots of a network, and the runs of those that have a viewer.
pub struct Pages {
    session: Session,
    watch: Watch,
    shown: Mutex<BTreeMap<RobotName, (Viewed, Instant)>>,
}

impl Pages {
    /// Begins to watch.
    ///
    /// # Errors
    /// The session is closed.
    pub fn start(session: Session) -> Result<Self> {
        let watch = Watch::start(&session)?;
        Ok(Self { session, watch, shown: Mutex::default() })
    }

    /// Lets go of robots without a viewer. Call it about once a second.
    pub fn tidy(&self) {
        let mut shown = self.shown();
        for (viewed, seen) in shown.values_mut() {
            if !viewed.hub.clients().is_empty() {
                *seen = Instant::now();
            }
        }
        shown.retain(|_, (_, seen)| seen.elapsed() < UNSEEN);
    }

    fn shown(&self) -> MutexGuard<'_, BTreeMap<RobotName, (Viewed, Instant)>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pages").field("shown", &self.shown().len()).finish_non_exhaustive()
    }
}

impl Fleet for Pages {
    fn page(&self, token: Option<&str>) -> String {
        list(&self.watch.robots(), token)
    }

    fn hub(&self, robot: &str) -> Result<Option<Arc<Hub>>, String> {
        let name = RobotName::new(robot).ok().filter(|name| self.watch.robots().contains_key(name));
        let Some(name) = name else { return Ok(None) };
        let mut shown = self.shown();
        if let Some((viewed, seen)) = shown.get_mut(&name) {
            *seen = Instant::now();
            return Ok(Some(viewed.hub.clone()));
        }
        if shown.len() >= MAX_SHOWN {
            let unseen = shown.iter().filter(|(_, (viewed, _))| viewed.hub.clients().is_empty());
            let unseen = unseen.min_by_key(|(_, (_, seen))| *seen).map(|(name, _)| name.clone());
            shown.remove(&unseen.ok_or_else(full)?);
        }
        let viewed = Viewed::start(&self.session, &name).map_err(|error| format!("{error:#}"))?;
        let hub = viewed.hub.clone();
        shown.insert(name, (viewed, Instant::now()));
        Ok(Some(hub))
    }

    fn hubs(&self) -> Vec<Arc<Hub>> {
        self.shown().values().map(|(viewed, _)| viewed.hub.clone()).collect()
    }
}

fn full() -> String {
    format!(
        "this program shows {MAX_SHOWN} robots at once, and each of them is being watched: close a robot's page, or start another \
         `khz-fleet view`"
    )
}

/// The list. It loads itself again every two seconds, without a script.
fn list(robots: &Robots, token: Option<&str>) -> String {
    let token = token.map(|token| format!("&token={token}")).unwrap_or_default();
    let mut rows = String::new();
    for (name, seen) in robots {
        let host = seen.status().map_or_else(|| "–".to_owned(), |status| status.host.clone());
        let [phase, rate, wake, lost, last] = seen.figures("–");
        let cells = [seen.state(), host, phase, rate, wake, lost, last];
        let class = if seen.is_up() { "" } else { " class=gone" };
        _ = write!(
            rows,
            "<tr{class}><td><a href=\"/?robot={}{}\">{}</a>",
            Text(name.as_str()),
            Text(&token),
            Text(name.as_str())
        );
        cells.iter().for_each(|cell| _ = write!(rows, "<td>{}", Text(cell)));
        rows += "\n";
    }
    if rows.is_empty() {
        _ = writeln!(rows, "<tr><td colspan=8>{NONE_SEEN}");
    }
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>\
         <meta name=viewport content=\"width=device-width\"><title>Fleet</title><style>{PALETTE}\n{STYLE}</style>\
         <h1>Robots</h1><table><tr><th>robot<th>state<th>computer<th>phase<th>rate<th>worst wake<th>lost<th>last 10 s\n{rows}</table>\
         <p>A robot's page has its Stop. It is a convenience, not an emergency stop: it depends on a network, a browser and \
         three processes. “Unreachable” says nothing about what a robot does.</p></html>\n"
    )
}

const STYLE: &str = "body{font:16px system-ui,sans-serif;margin:2rem;max-width:70rem}table{border-collapse:collapse;width:100%}\
    th,td{text-align:left;padding:.4rem .8rem;border-bottom:1px solid #8884}th{font-weight:600}.gone{opacity:.55}\
    p{max-width:45rem;opacity:.8}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Seen;

    #[test]
    fn the_list_links_every_robot_and_keeps_text_text() {
        let mut robots = Robots::new();
        let mut status: crate::bridge::Status = serde_json::from_str(
            r#"{"robot":"quad1","host":"<b>","version":"0","up":true,"commands":true,"run":1,"age_s":0.1,
                "health":{"rate_hz":999.7,"phase":"active","recent":{"ticks":1,"worst_wake_us":61.2},
                "run":{"ticks":1,"worst_wake_us":0}},"verdict":"clean",
                "state":"up","received":{"samples":1,"lost":2,"behind":1,"refused":0,"others":0},"sent":1,"dropped":0}"#,
        )
        .unwrap();
        status.verdict = "<script>".into();
        let bridges = ["7".to_owned()].into();
        let seen =
            Seen { has_token: true, bridges, status: Some((status, Instant::now())), ..Seen::default() };
        robots.insert(RobotName::new("quad1").unwrap(), seen);
        robots.insert(RobotName::new("leg").unwrap(), Seen::default());
        let page = list(&robots, Some("s3cret"));
        assert!(
            page.contains("href=\"/?robot=quad1&amp;token=s3cret\"")
                && page.contains("1000 Hz")
                && page.contains("<td>3")
        );
        assert!(!page.contains("<script>") && !page.contains("<b>"));
        assert!(page.contains("class=gone") && page.contains("unreachable"));
        assert!(list(&Robots::new(), None).contains(NONE_SEEN));
    }
}
