-- Winning bids. The bidder breaks the ties of equal bids at one moment.
SELECT id, item_name, description, initial_bid, reserve, date_time, expires, seller, category,
       bidder, price, bid_at
  FROM (SELECT a.*, b.bidder, b.price, b.date_time AS bid_at,
               row_number() OVER (
                   PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) AS place
          FROM auction AS a
          JOIN bid AS b ON b.auction = a.id
         WHERE b.date_time BETWEEN a.date_time AND a.expires) AS placed
 WHERE place = 1
