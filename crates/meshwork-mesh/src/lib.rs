//! Meshes of named device axes, and how arrays are placed on them.
