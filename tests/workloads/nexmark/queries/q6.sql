-- Average selling price of each seller's last ten closed auctions, at each closing. The auction's
-- key breaks the ties of auctions that close together.
SELECT seller,
       id,
       avg(final) OVER (
           PARTITION BY seller ORDER BY expires, id
           ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS average
  FROM (SELECT DISTINCT ON (a.id) a.id, a.seller, a.expires, b.price AS final
          FROM auction AS a
          JOIN bid AS b ON b.auction = a.id
         WHERE b.date_time BETWEEN a.date_time AND a.expires
         ORDER BY a.id, b.price DESC) AS closed
