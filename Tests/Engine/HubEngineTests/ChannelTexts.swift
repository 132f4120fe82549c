/// What clients are told of ordinary channels, as suites expect it.
protocol ChannelTexts {}

extension ChannelTexts {
    func succeeded(_ name: String) -> String {
        #"{"event":"pusher_internal:subscription_succeeded","channel":"\#(name)","data":"{}"}"#
    }

    func event(_ event: String, _ name: String, _ data: String) -> String {
        #"{"event":"\#(event)","channel":"\#(name)","data":"\#(data)"}"#
    }

    func miss(_ name: String) -> String { #"{"event":"pusher:cache_miss","channel":"\#(name)"}"# }

    func count(_ name: String, _ count: Int) -> String {
        #"{"event":"pusher_internal:subscription_count","channel":"\#(name)","data":"{\"subscription_count\":\#(count)}"}"#
    }
}
