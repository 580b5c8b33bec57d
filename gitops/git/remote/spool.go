package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Download is a packfile from the server: in memory if it is small, otherwise in a file without a
// name, which disappears with the process.
type Download struct {
	io.ReaderAt
	Size int64
	file tempFile // nil: in memory
}

// tempFile is an [os.File], or in tests a full disk.
type tempFile interface {
	io.Writer
	io.ReaderAt
	io.Closer
}

// Close frees the memory or the file.
func (d *Download) Close() {
	if d != nil && d.file != nil {
		_ = d.file.Close()
	}
}

const (
	// smallPack is the size in bytes up to which a pack is kept in memory.
	smallPack = 4 << 20
	// maxBytes limits a pack that may be rejected for its size.
	maxBytes = 16 << 20
	// MaxPack limits every other pack.
	MaxPack = 128 << 20
	// MaxInMemory limits a pack that can only be kept in memory. A starting process has two: the
	// commit's and the log's, in addition to 64 MiB for the processes that build.
	MaxInMemory = 32 << 20
	// MaxEntries limits the objects of a pack: each takes 32 bytes of memory.
	MaxEntries = 1 << 20
)

// ErrPack is returned if a server without partial clone sends too much.
var ErrPack = fmt.Errorf("the server sends more than %d MiB or %d objects, since it cannot send single files: allow partial clone (uploadpack.allowFilter and uploadpack.allowAnySHA1InWant), or give the fleet a repository of its own", MaxPack>>20, MaxEntries)

// ErrNoPlace is returned if, in addition, the pack cannot be written to a disk.
var ErrNoPlace = fmt.Errorf("the server sends more than %d MiB, since it cannot send single files, and no temporary file can be created or its disk is full, so that it would be kept in memory: mount a writable directory with room at /tmp, or name one in TMPDIR; or allow partial clone (uploadpack.allowFilter and uploadpack.allowAnySHA1InWant)", MaxInMemory>>20)

// ReadPack reads a pack, unless its header announces more than most objects. Zero means as many as can
// be indexed.
func (c *Connection) ReadPack(from io.Reader, most uint32) (*Download, error) {
	header := make([]byte, 12) // "PACK", the version, the number of objects
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	bound, tooLarge := int64(MaxPack), ErrPack
	if most > 0 {
		bound, tooLarge = maxBytes, fmt.Errorf("%w: they have more than %d bytes", ErrTooMany, maxBytes)
	}
	switch count := binary.BigEndian.Uint32(header[8:]); {
	case most > 0 && count > most:
		return nil, fmt.Errorf("%w: %d", ErrTooMany, count)
	case count > MaxEntries:
		return nil, tooLarge
	}
	s := &Spool{Connection: c}
	_, _ = s.Write(header) // to memory
	_, err := io.Copy(s, io.LimitReader(from, bound+1-s.size))
	if err == nil && s.size > bound {
		err = tooLarge
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s.Download(), nil
}

// Spool stores a pack: in memory if it is small, otherwise in a file.
type Spool struct {
	Connection *Connection
	chunks     chunks
	File       tempFile
	size       int64
	refused    bool // no temporary file can be made, or its disk is full
}

// Close removes the pack.
func (s *Spool) Close() {
	if s.File != nil {
		_ = s.File.Close()
	}
}

// Download returns the pack to be read.
func (s *Spool) Download() *Download {
	if s.File != nil {
		return &Download{ReaderAt: s.File, Size: s.size, file: s.File}
	}
	return &Download{ReaderAt: s.chunks, Size: s.size}
}

// Write implements [io.Writer].
func (s *Spool) Write(p []byte) (int, error) {
	if s.File == nil && s.size+int64(len(p)) > smallPack && !s.refused {
		s.spill()
	}
	if s.File != nil {
		n, err := s.File.Write(p)
		if err == nil {
			s.size += int64(n)
			return n, nil
		}
		if err := s.unspill(err); err != nil {
			return 0, err
		}
	}
	if s.size+int64(len(p)) > MaxInMemory {
		return 0, ErrNoPlace
	}
	s.size += int64(len(p))
	s.chunks = s.chunks.add(p)
	return len(p), nil
}

// spill moves the pack into a temporary file. If no file can be made, or its disk is full,
// the pack stays in memory up to MaxInMemory: an error that names the setting is better
// than repeated out-of-memory kills.
func (s *Spool) spill() {
	if s.Connection.TempDir == "" {
		s.refused = true
		return
	}
	file, err := os.CreateTemp(s.Connection.TempDir, "muster-pack-")
	if err != nil {
		s.refuse(err)
		return
	}
	_ = os.Remove(file.Name())
	for _, chunk := range s.chunks {
		if _, err := file.Write(chunk); err != nil {
			_ = file.Close()
			s.refuse(err)
			return
		}
	}
	s.File, s.chunks = file, nil
}

// unspill moves the content of a file on a full disk back into memory.
func (s *Spool) unspill(full error) error {
	s.refuse(full)
	if s.size > MaxInMemory {
		return ErrNoPlace
	}
	buffer := make([]byte, chunkSize)
	for at := int64(0); at < s.size; {
		n, err := s.File.ReadAt(buffer[:min(chunkSize, s.size-at)], at)
		if err != nil {
			return fmt.Errorf("reading a temporary file: %w", err)
		}
		s.chunks = s.chunks.add(buffer[:n])
		at += int64(n)
	}
	_ = s.File.Close()
	s.File = nil
	return nil
}

// refuse records that no temporary file can be used.
func (s *Spool) refuse(err error) {
	s.refused = true
	c := s.Connection
	c.noPlace.Do(func() {
		c.Log.Warn("keeping what the server sends in memory, since no temporary file can be created or its disk is full: mount a writable directory with room at /tmp, or name one in TMPDIR", "repository", c.Address.String(), "reason", c.Printable(err.Error()))
	})
}

// chunks are bytes that grow without being copied. All but the last have the same size.
type chunks [][]byte

const chunkSize = 64 << 10

func (c chunks) add(p []byte) chunks {
	if c == nil {
		c = chunks{nil} // most packs are small: the first grows
	}
	for len(p) > 0 {
		if len(c[len(c)-1]) == chunkSize {
			c = append(c, make([]byte, 0, chunkSize))
		}
		last := &c[len(c)-1]
		n := min(len(p), chunkSize-len(*last))
		*last = append(*last, p[:n]...)
		p = p[n:]
	}
	return c
}

// ReadAt implements [io.ReaderAt].
func (c chunks) ReadAt(p []byte, at int64) (n int, err error) {
	if at < 0 {
		return 0, errors.New("read before the beginning")
	}
	for n < len(p) {
		i, from := int(at/chunkSize), int(at%chunkSize)
		if i >= len(c) || from >= len(c[i]) {
			return n, io.EOF
		}
		m := copy(p[n:], c[i][from:])
		n, at = n+m, at+int64(m)
	}
	return n, nil
}
