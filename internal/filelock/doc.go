// Package filelock keeps the processes of one machine from changing a file together.
package filelock
