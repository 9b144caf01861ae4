package main

import (
	"os"
	"syscall"
	"unsafe"
)

// An alarm wakes a goroutine at a time. Go's own timers wake up to a millisecond late when nothing else happens,
// for they wait in epoll, which counts in milliseconds; a timerfd ends that wait on time.
type alarm struct {
	fd   uintptr
	file *os.File
}

const (
	clockMonotonic = 1
	nonblocking    = 0o4000
	closeOnExec    = 0o2000000
)

func newAlarm() (*alarm, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, nonblocking|closeOnExec, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	return &alarm{fd, os.NewFile(fd, "timerfd")}, nil
}

// wait returns after so many microseconds.
func (a *alarm) wait(microseconds int64) error {
	if microseconds <= 0 {
		return nil
	}
	// struct itimerspec: the interval of a repetition, and the time until the first
	spec := [2]syscall.Timespec{{}, syscall.NsecToTimespec(microseconds * 1000)}
	at := uintptr(unsafe.Pointer(&spec))
	if _, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, a.fd, 0, at, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("timerfd_settime", errno)
	}
	var expired [8]byte
	_, err := a.file.Read(expired[:])
	return err
}
