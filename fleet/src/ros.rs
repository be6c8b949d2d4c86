//! How `rmw_zenoh` lays out topics: keys, the tokens that make up ROS 2's graph, and the attachment of each message.
//!
//! After rmw_zenoh's design document and `liveliness_utils.cpp`, `attachment_helpers.cpp` from release 0.2.4 on; earlier
//! releases lay out the attachment differently and are not supported.

use khz_view::standard::Standard;
use std::fmt;
use twox_hash::XxHash3_128;

/// Keep the last ten, reliable and volatile, as `rmw_zenoh` writes it: what equals the default is left empty.
const QOS: &str = "::,10:,:,:,,";

/// A topic with messages of a standard type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// With its leading slash: `/quad1/joint_states`.
    pub name: String,
    /// `sensor_msgs/msg/JointState`.
    pub message: &'static str,
    /// The hash of the type's description (REP 2016), `RIHS01_…`.
    pub hash: &'static str,
}

impl Topic {
    /// The topic of a standard message of a robot, if ROS 2 gets it.
    pub fn of(standard: Standard, robot: &str) -> Option<Self> {
        let (name, hash) = match standard {
            Standard::JointStates => (
                format!("/{robot}/joint_states"),
                "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e",
            ),
            Standard::Imu => (
                format!("/{robot}/imu"),
                "RIHS01_7d9a00ff131080897a5ec7e26e315954b8eae3353c3f995c55faf71574000b5b",
            ),
            Standard::Diagnostics => (
                "/diagnostics".to_owned(),
                "RIHS01_5a8a36efb05fb25070fa0fb3810290c0e6cd4862b54a8fb975a1ee8dc55a333e",
            ),
            Standard::Tf | Standard::Events => return None,
        };
        Some(Self { name, message: standard.message(), hash })
    }

    /// The key of its messages.
    pub fn key(&self, domain: u32) -> String {
        let name = self.name.trim_matches('/');
        format!("{domain}/{name}/{}/{}", self.dds_type(), self.hash)
    }

    /// `sensor_msgs::msg::dds_::JointState_`.
    fn dds_type(&self) -> String {
        match self.message.rsplit_once('/') {
            Some((package, name)) => format!("{}::dds_::{name}_", package.replace('/', "::")),
            None => format!("{}_", self.message),
        }
    }
}

/// A node of ROS 2's graph: one bridge is one.
#[derive(Clone, Debug)]
pub struct Node {
    /// ROS_DOMAIN_ID.
    pub domain: u32,
    /// The session's id.
    pub session: String,
    /// The robot's name as ROS allows it: the node's namespace.
    pub robot: String,
}

impl Node {
    /// The token that shows that the node is there.
    pub fn token(&self) -> String {
        format!("{}/NN/{}", self.head(0), self.tail())
    }

    /// The token of its publisher number `entity`, from 1.
    pub fn publisher(&self, entity: u32, topic: &Topic) -> String {
        let name = topic.name.replace('/', "%");
        format!("{}/MP/{}/{name}/{}/{}/{QOS}", self.head(entity), self.tail(), topic.dds_type(), topic.hash)
    }

    fn head(&self, entity: u32) -> String {
        format!("@ros2_lv/{}/{}/0/{entity}", self.domain, self.session)
    }

    /// Enclave, namespace and node.
    fn tail(&self) -> String {
        format!("%/%{}/khz", self.robot)
    }
}

/// What identifies a publisher: as `rmw_zenoh`, the XXH3-128 of its token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Gid([u8; 16]);

impl Gid {
    /// Of a text that no other publisher has.
    pub fn of(token: &str) -> Self {
        Self(XxHash3_128::oneshot(token.as_bytes()).to_le_bytes())
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The bytes beside each message: its number, from 1, its time in ns since 1970, and its publisher. A receiver sees by the
/// numbers what it has missed.
pub fn attachment(number: i64, time_ns: i64, gid: Gid) -> [u8; 33] {
    let mut bytes = [0; 33];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..16].copy_from_slice(&time_ns.to_le_bytes());
    bytes[16] = 16;
    bytes[17..].copy_from_slice(&gid.0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "RIHS01_a13ee3a330e346c9d87b5aa18d24e11690752bd33a0350f11c5882bc9179260e";

    fn node() -> Node {
        Node { domain: 0, session: "77c87d9855fa8b650fe7b5065d1360e6".into(), robot: "quad1".into() }
    }

    /// Layout after rmw_zenoh's `liveliness_utils.cpp`.
    #[test]
    fn keys_and_tokens_are_those_of_rmw_zenoh() {
        let topic = Topic::of(Standard::JointStates, "quad1").unwrap();
        assert_eq!(topic.key(0), format!("0/quad1/joint_states/sensor_msgs::msg::dds_::JointState_/{HASH}"));
        let node = node();
        assert_eq!(node.token(), "@ros2_lv/0/77c87d9855fa8b650fe7b5065d1360e6/0/0/NN/%/%quad1/khz");
        assert_eq!(
            node.publisher(1, &topic),
            format!(
                "@ros2_lv/0/77c87d9855fa8b650fe7b5065d1360e6/0/1/MP/%/%quad1/khz/%quad1%joint_states/\
                 sensor_msgs::msg::dds_::JointState_/{HASH}/::,10:,:,:,,"
            )
        );
        let diagnostics = Topic::of(Standard::Diagnostics, "quad1").unwrap();
        assert!(
            diagnostics
                .key(7)
                .starts_with("7/diagnostics/diagnostic_msgs::msg::dds_::DiagnosticArray_/RIHS01_5a8a")
        );
        assert_eq!(Topic::of(Standard::Tf, "quad1"), None);
    }

    #[test]
    fn the_attachment_has_33_bytes() {
        let bytes = attachment(1, 1_800_000_000_000_000_000, Gid([0xab; 16]));
        assert_eq!(bytes[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[8..16], 1_800_000_000_000_000_000_i64.to_le_bytes());
        assert_eq!((bytes[16], &bytes[17..]), (16, &[0xab; 16][..]));
    }

    /// The value of the empty input is that of XXH3's specification; the low word comes first.
    #[test]
    fn a_publisher_is_known_by_its_token() {
        assert_eq!(format!("{:?}", Gid::of("")), "7f498d4624c30160d8984701d306aa99");
        assert_ne!(Gid::of("a"), Gid::of("b"));
    }
}
