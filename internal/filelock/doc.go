// Package filelock keeps the processes of a machine from changing a file together.
package filelock
