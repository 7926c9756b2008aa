//! A read that the system has not ended, counted for the health of its device as long as it lives.

use std::sync::Arc;

use crate::device::Device;

/// A read that the system has not ended.
pub(crate) struct Held {
    device: Arc<Device>,
    bytes: u64,
}

impl Held {
    pub(crate) fn new(device: Arc<Device>, bytes: usize) -> Self {
        let bytes = bytes as u64;
        device.health().begin_read(bytes);
        Self { device, bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.device.health().end_read(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Waiting;
    use std::time::Duration;

    #[test]
    fn a_device_without_reads_is_not_silent() {
        let device = Device::memory(4096);
        assert_eq!(device.health().silent_for(), Duration::ZERO);
        let held = Held::new(Arc::clone(&device), 4096);
        let begun = device.health().answered_ms();
        while device.health().silent_for() < Duration::from_millis(3) {
            std::thread::yield_now();
        }
        drop(held);
        assert_eq!(device.health().silent_for(), Duration::ZERO);
        assert!(device.health().answered_ms() > begun);
    }

    #[test]
    fn what_nobody_waits_for_is_abandoned() {
        let device = Device::memory(4096);
        let health = device.health();
        let held = Held::new(Arc::clone(&device), 4096);
        let waiting = Waiting::new(health, 4096);
        assert_eq!(health.abandoned_bytes(), 0);
        drop(waiting);
        assert_eq!(health.abandoned_bytes(), 4096);
        drop(held);
        assert_eq!(health.abandoned_bytes(), 0);
    }
}
