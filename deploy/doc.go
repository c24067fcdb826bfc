// Package deploy holds what runs ax in containers: a Dockerfile and a Compose
// file. Its tests check both without a container engine.
package deploy
