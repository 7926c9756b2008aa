//! The admin interface.
use std::sync::Arc;
use tokio::net::TcpListener;
use crate::state::Shared;
/// Serves.
pub async fn serve(_shared: Arc<Shared>, _socket: TcpListener) {}
