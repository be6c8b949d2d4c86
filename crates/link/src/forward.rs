//! What wrappers around a link hand on to it.

/// Methods of [`Link`](crate::Link) that a wrapper hands on to the link inside, written within its `impl Link`.
///
/// ```
/// use khz_link::{Link, LinkError, Received};
/// use khz_wire::Request;
///
/// /// Counts what it sends.
/// struct Counting<L>(L, u64);
///
/// impl<L: Link> Link for Counting<L> {
///     khz_link::forward_link!(it => it.0; capabilities, half_duplex, begin_cycle, flush, receive, next_event_ns, fd, imu,
///         about, misnamed, holds_back, set_bit_rate, close, counters);
///
///     fn send(&mut self, channel: u8, request: &Request<'_>, now_ns: i64) -> Result<(), LinkError> {
///         self.1 += 1;
///         self.0.send(channel, request, now_ns)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_link {
    ($it:ident => $link:expr; $($method:ident),+ $(,)?) => {
        $($crate::forward_link!(@$method $it => $link);)+
    };
    (@capabilities $it:ident => $link:expr) => {
        fn capabilities(&self) -> $crate::Capabilities {
            let $it = self;
            $crate::Link::capabilities(&$link)
        }
    };
    (@half_duplex $it:ident => $link:expr) => {
        fn half_duplex(&self, channel: u8) -> bool {
            let $it = self;
            $crate::Link::half_duplex(&$link, channel)
        }
    };
    (@begin_cycle $it:ident => $link:expr) => {
        fn begin_cycle(&mut self, now_ns: i64) {
            let $it = self;
            $crate::Link::begin_cycle(&mut $link, now_ns);
        }
    };
    (@send $it:ident => $link:expr) => {
        fn send(
            &mut self,
            channel: u8,
            request: &$crate::Request<'_>,
            now_ns: i64,
        ) -> Result<(), $crate::LinkError> {
            let $it = self;
            $crate::Link::send(&mut $link, channel, request, now_ns)
        }
    };
    (@flush $it:ident => $link:expr) => {
        fn flush(&mut self, now_ns: i64) -> Result<(), $crate::LinkError> {
            let $it = self;
            $crate::Link::flush(&mut $link, now_ns)
        }
    };
    (@receive $it:ident => $link:expr) => {
        fn receive(&mut self, now_ns: i64) -> Result<Option<$crate::Received>, $crate::LinkError> {
            let $it = self;
            $crate::Link::receive(&mut $link, now_ns)
        }
    };
    (@next_event_ns $it:ident => $link:expr) => {
        fn next_event_ns(&self) -> Option<i64> {
            let $it = self;
            $crate::Link::next_event_ns(&$link)
        }
    };
    (@fd $it:ident => $link:expr) => {
        fn fd(&self) -> Option<::std::os::fd::BorrowedFd<'_>> {
            let $it = self;
            $crate::Link::fd(&$link)
        }
    };
    (@imu $it:ident => $link:expr) => {
        fn imu(&mut self) -> Option<&mut dyn $crate::Imu> {
            let $it = self;
            $crate::Link::imu(&mut $link)
        }
    };
    (@about $it:ident => $link:expr) => {
        fn about(&mut self) -> Result<Vec<String>, $crate::LinkError> {
            let $it = self;
            $crate::Link::about(&mut $link)
        }
    };
    (@misnamed $it:ident => $link:expr) => {
        fn misnamed(&mut self) -> Option<String> {
            let $it = self;
            $crate::Link::misnamed(&mut $link)
        }
    };
    (@holds_back $it:ident => $link:expr) => {
        fn holds_back(&self) -> Option<String> {
            let $it = self;
            $crate::Link::holds_back(&$link)
        }
    };
    (@set_bit_rate $it:ident => $link:expr) => {
        fn set_bit_rate(&mut self, bits_per_second: Option<u32>) -> Result<(), $crate::LinkError> {
            let $it = self;
            $crate::Link::set_bit_rate(&mut $link, bits_per_second)
        }
    };
    (@close $it:ident => $link:expr) => {
        fn close(&mut self, now_ns: i64) -> Vec<String> {
            let $it = self;
            $crate::Link::close(&mut $link, now_ns)
        }
    };
    (@counters $it:ident => $link:expr) => {
        fn counters(&self, channel: u8) -> $crate::Counters {
            let $it = self;
            $crate::Link::counters(&$link, channel)
        }
    };
}
