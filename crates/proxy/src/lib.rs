//! The data plane: listeners, workers, origins, memory tier, admin interface
