package buildkite

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
)

// record is a pointer to one of the records.
type record[T any] interface {
	*T
	odd() string
}

// decodeList reads a list. Invalid elements are handed to odd and
// left out; what is not a whole list is an error.
func decodeList[T any, P record[T]](raw []byte, odd func(why string)) ([]T, error) {
	elements, err := split(raw)
	if err != nil {
		return nil, err
	}
	list := make([]T, 0, len(elements))
	for _, element := range elements {
		value, why, err := decode[T, P](element)
		if err != nil {
			return nil, err
		}
		if why != "" {
			odd(why)
			continue
		}
		list = append(list, value)
	}
	return list, nil
}

// decode reads one element; why is set when it is invalid.
func decode[T any, P record[T]](element []byte) (value T, why string, err error) {
	// An error of another kind is a value of another kind than expected, which
	// counts as missing.
	var syntax *json.SyntaxError
	if err := json.Unmarshal(element, &value); errors.As(err, &syntax) {
		return value, "", notWhole(err)
	}
	return value, P(&value).odd(), nil
}

func notWhole(err error) error { return fmt.Errorf("the answer is not whole JSON: %w", err) }

// split cuts a list into its elements, which are not looked into: each is
// sound only once it has been decoded. A list cut off anywhere is an error.
func split(raw []byte) ([][]byte, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, errors.New("the answer is empty, where a list was asked for")
	}
	if raw[0] != '[' {
		return nil, errors.New("the answer is not a list")
	}
	var elements [][]byte
	depth, from := 0, 1
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
		case ',':
			if depth == 1 {
				elements = append(elements, bytes.TrimSpace(raw[from:i]))
				from = i + 1
			}
		case ']', '}':
			if depth--; depth > 0 {
				continue
			}
			if i != len(raw)-1 || raw[i] != ']' {
				return nil, notWhole(errors.New("there is more after its end"))
			}
			if last := bytes.TrimSpace(raw[from:i]); len(last) > 0 || len(elements) > 0 {
				elements = append(elements, last)
			}
			return elements, nil
		}
	}
	return nil, notWhole(errors.New("it ends too early"))
}

// memory keeps what the last reading of a list decoded to, by the digest of the
// raw record: from one observation to the next nearly all records stay as they
// are. The zero value is empty and ready.
type memory[V any] struct {
	last, now map[[sha256.Size]byte]V
}

// next begins a reading: what the one before last brought is forgotten.
func (m *memory[V]) next() {
	m.last, m.now = m.now, make(map[[sha256.Size]byte]V, len(m.now))
}

// of returns what raw decodes to: from memory, or by decoding it, which says
// whether the result may be kept.
func (m *memory[V]) of(raw []byte, decode func() (value V, keep bool, err error)) (V, error) {
	digest := sha256.Sum256(raw)
	value, ok := m.last[digest]
	if !ok {
		value, ok = m.now[digest]
	}
	if !ok {
		var err error
		if value, ok, err = decode(); err != nil || !ok {
			return value, err
		}
	}
	m.now[digest] = value
	return value, nil
}
