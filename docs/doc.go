// Package docs holds the project's documents. Its tests keep them true: links,
// commands, headers and the names of tests that they mention must exist.
package docs
