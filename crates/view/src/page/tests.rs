use super::*;

fn client(hub: &Hub) -> PageClient {
    PageClient::new(hub.join("page test".into()).unwrap())
}
