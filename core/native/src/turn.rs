//! Turns: for a moment at a time, whoever moves bytes does so without the interpreter, and waits
//! for sockets. In between the interpreter handles signals and looks for stalls.

use std::ffi::{c_int, c_short};
use std::time::{Duration, Instant};

/// How a turn has ended. Python knows them by these numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// There is more to do.
    More = 0,
    /// What was asked for is there, or the stream has ended.
    Ready = 1,
    /// The target has said something, which is to be looked at.
    Spoke = 2,
    SourceFailed = 3,
    TargetFailed = 4,
    /// A value, or the stream, cannot be decoded.
    Refused = 5,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Source,
    Target,
}

/// Waits, and remembers for what and how long.
pub struct Waits {
    pub source: Duration,
    pub target: Duration,
    /// For whom it waits, and how long it has while nothing moved: what is between turns, a pause
    /// for instance, is no waiting.
    pub idle: Option<(Side, Duration)>,
    deadline: Instant,
}

/// What Python is told: seconds of waiting for either side, those of now, and for whom.
pub type Figures = (f64, f64, f64, &'static str);

/// How a wait has ended.
pub enum Woken {
    Ready,
    /// The target has said something, whichever side was waited for.
    Watched,
    /// The turn is over, or a signal has come.
    Over,
}

impl Default for Waits {
    fn default() -> Self {
        let (source, target) = (Duration::ZERO, Duration::ZERO);
        Self {
            source,
            target,
            idle: None,
            deadline: Instant::now(),
        }
    }
}

impl Waits {
    pub fn begin_turn(&mut self, seconds: f64) {
        self.deadline = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1.0));
    }

    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Wait until a socket is readable, or writable, and meanwhile for another one to become
    /// readable. The one that is to be writable is watched itself.
    pub fn wait(&mut self, side: Side, fd: c_int, writing: bool, watched: c_int) -> Woken {
        let begun = Instant::now();
        // A large row may come so fast that there is never anything to wait for.
        if begun >= self.deadline {
            return Woken::Over;
        }
        if !matches!(self.idle, Some((before, _)) if before == side) {
            self.idle = Some((side, Duration::ZERO));
        }
        let events: c_short = libc::POLLIN | if writing { libc::POLLOUT } else { 0 };
        let mut polled = [
            libc::pollfd {
                fd,
                events,
                revents: 0,
            },
            libc::pollfd {
                fd: watched,
                events: libc::POLLIN,
                revents: 0,
            },
        ];
        let left = self.deadline.saturating_duration_since(begun);
        let milliseconds = left.as_micros().div_ceil(1000) as c_int;
        // SAFETY: both are initialised; one whose fd is negative is passed over.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), 2, milliseconds) };
        let waited = begun.elapsed();
        match side {
            Side::Source => self.source += waited,
            Side::Target => self.target += waited,
        }
        if let Some((_, idle)) = &mut self.idle {
            *idle += waited;
        }
        if ready <= 0 {
            return Woken::Over;
        }
        match polled[0].revents {
            0 => Woken::Watched,
            found => {
                self.idle = None;
                if writing && found & !libc::POLLOUT != 0 {
                    Woken::Watched
                } else {
                    Woken::Ready
                }
            }
        }
    }

    pub fn figures(&self) -> Figures {
        let (side, idle) = self.idle.unwrap_or((Side::Source, Duration::ZERO));
        let side = if side == Side::Target {
            "target"
        } else {
            "source"
        };
        (
            self.source.as_secs_f64(),
            self.target.as_secs_f64(),
            idle.as_secs_f64(),
            side,
        )
    }
}

pub fn is_readable(fd: c_int) -> bool {
    let mut polled = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: it is initialised.
    unsafe { libc::poll(&mut polled, 1, 0) > 0 }
}
