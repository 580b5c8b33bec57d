package fakebuildkite

import "container/heap"

// Heap is a [heap.Interface]: the first item is that which is before all others.
type Heap[T interface{ Before(T) bool }] []T

var _ heap.Interface = (*Heap[event])(nil)

// Len implements [heap.Interface].
func (h Heap[T]) Len() int { return len(h) }

// Less implements [heap.Interface].
func (h Heap[T]) Less(i, j int) bool { return h[i].Before(h[j]) }

// Swap implements [heap.Interface].
func (h Heap[T]) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements [heap.Interface].
func (h *Heap[T]) Push(x any) { *h = append(*h, x.(T)) }

// Pop implements [heap.Interface].
func (h *Heap[T]) Pop() any {
	last := (*h)[len(*h)-1]
	clear((*h)[len(*h)-1:])
	*h = (*h)[:len(*h)-1]
	return last
}
