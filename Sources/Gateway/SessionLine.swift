import Channels

/// Connections that wait for something, first in, first out.
struct SessionLine {
    private var ids: ContiguousArray<SessionID> = []
    private var head = 0

    var isEmpty: Bool { head == ids.count }
    var count: Int { ids.count - head }

    mutating func append(_ id: SessionID) {
        ids.append(id)
    }

    mutating func popFirst() -> SessionID? {
        guard head < ids.count else { return nil }
        let id = ids[head]
        head += 1
        // Where more come all the time, the line may never be empty.
        if head == ids.count || (head >= 1_024 && head * 2 >= ids.count) {
            ids.removeFirst(head)
            head = 0
        }
        return id
    }
}
